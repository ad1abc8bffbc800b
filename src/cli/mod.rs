//! Floor 10: the words of the command line, one file a subcommand.
