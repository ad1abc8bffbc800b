//! Floor 4: bytes become a `Snapshot`. One importer a file format; contents decide, not names.
