//! How the allocator deals with large blocks.

/// Keeps memory that is freed for what is allocated next. By default the C library gives large blocks back to the kernel,
/// which clears them again for the next batch: a third of the time of an export.
pub fn keep() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets parameters of the allocator; nothing is touched that is allocated.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
    }
}
