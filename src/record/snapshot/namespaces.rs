//! Whether what `/proc` shows is the machine's own.

use std::fs;

use super::root::Root;

/// A kind of namespace, see namespaces(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    Pid,
    User,
}

/// Whether this process is in another namespace than the machine's first; `false` where that cannot be told.
pub fn in_own_namespace(root: &Root, kind: Namespace) -> bool {
    // The first namespaces have fixed numbers (include/linux/proc_ns.h).
    let (link, first) = match kind {
        Namespace::Pid => ("proc/self/ns/pid", "pid:[4026531836]"),
        Namespace::User => ("proc/self/ns/user", "user:[4026531837]"),
    };
    fs::read_link(root.path(link)).is_ok_and(|link| link.as_os_str() != first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_first_namespaces_are_known_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(!in_own_namespace(&root, Namespace::Pid));
        fs::create_dir_all(root.path("proc/self/ns")).unwrap();
        symlink("pid:[4026531836]", root.path("proc/self/ns/pid")).unwrap();
        symlink("user:[4026532000]", root.path("proc/self/ns/user")).unwrap();
        assert!(!in_own_namespace(&root, Namespace::Pid));
        assert!(in_own_namespace(&root, Namespace::User));
    }
}
