//! Which module a source file belongs to, in the words people use: `torch.nn`, `transformers.models`, `train`.
//!
//! Always: for an installed package its first two folders, or its one file; for a file of one's own the file alone,
//! because nothing tells where its package begins.

/// The module of a file as a snapshot names it; none where it names no file.
pub fn module_of(file: &str) -> Option<String> {
    let path = file.replace('\\', "/");
    let path = path.trim();
    if path.is_empty() || path == "??" {
        return None;
    }
    if let Some(frozen) = path.strip_prefix("<frozen ").and_then(|rest| rest.strip_suffix('>')) {
        return Some(packages(&frozen.replace('.', "/")).unwrap_or_else(|| frozen.to_owned()));
    }
    let installed = ["site-packages/", "dist-packages/"].iter().find_map(|folder| behind(path, folder));
    let installed = installed.or_else(|| standard_library(path)).or_else(|| behind(path, "/torch/").map(|_| from_torch(path)));
    if let Some(name) = installed.and_then(packages) {
        return Some(name);
    }
    let mut parts = path.rsplit('/').filter(|part| !part.is_empty());
    let name = parts.next()?;
    let stem = stem(name);
    let folder = if matches!(stem, "__init__" | "__main__") { parts.next() } else { None };
    Some(folder.unwrap_or(stem).to_owned())
}

/// What stands behind the last `part` of a path.
fn behind<'a>(path: &'a str, part: &str) -> Option<&'a str> {
    path.rfind(part).map(|at| &path[at + part.len()..])
}

/// The part of a path from PyTorch's own folder on, where PyTorch was built in place.
fn from_torch(path: &str) -> &str {
    path.find("/torch/").map_or(path, |at| &path[at + 1..])
}

/// What stands behind `lib/python3.11/`.
fn standard_library(path: &str) -> Option<&str> {
    let (version, rest) = behind(path, "lib/python")?.split_once('/')?;
    version.chars().all(|c| c.is_ascii_digit() || c == '.').then_some(rest)
}

/// The first two packages of a path inside a folder of packages; a file that lies in none is its own.
fn packages(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let file = parts.pop()?;
    if parts.is_empty() { Some(stem(file).to_owned()) } else { Some(parts[..parts.len().min(2)].join(".")) }
}

fn stem(file: &str) -> &str {
    [".py", ".pyc", ".pyx", ".ipynb"].iter().find_map(|ending| file.strip_suffix(ending)).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_module() {
        for (file, module) in [
            ("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", "torch.nn"),
            ("/venv/lib/python3.11/site-packages/torch/_ops.py", "torch"),
            ("/usr/lib/python3/dist-packages/numpy/core/_methods.py", "numpy.core"),
            (r"C:\env\Lib\site-packages\transformers\models\llama\modeling_llama.py", "transformers.models"),
            ("/venv/lib/python3.11/site-packages/six.py", "six"),
            ("/usr/lib/python3.11/threading.py", "threading"),
            ("/usr/lib/python3.11/concurrent/futures/thread.py", "concurrent.futures"),
            ("/src/pytorch/torch/nn/modules/linear.py", "torch.nn"),
            ("/src/pytorch/torch/csrc/autograd/engine.cpp", "torch.csrc"),
            ("/a/b/train.py", "train"),
            ("train.py", "train"),
            ("/a/model/__init__.py", "model"),
            ("__main__.py", "__main__"),
            ("kernels.cu", "kernels.cu"),
            ("<frozen runpy>", "runpy"),
            ("<frozen importlib._bootstrap>", "importlib"),
            ("<stdin>", "<stdin>"),
        ] {
            assert_eq!(module_of(file).as_deref(), Some(module), "{file}");
        }
        for file in ["", "??", "/", " "] {
            assert_eq!(module_of(file), None, "{file}");
        }
    }
}
