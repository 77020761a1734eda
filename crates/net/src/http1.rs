//! HTTP/1.1 towards services and peers, with the bounds of a head.

use hyper::client::conn::http1;

/// How many header fields hyper allows when it is not told. Told even the same number, it puts the
/// places of the fields on the heap, twice per head: a fifth of what a plain request costs outside the
/// kernel.
pub(crate) const BUILT_IN_FIELDS_MAX: usize = 100;

/// The shortest buffer for heads that is worth having.
const BUFFER_MIN_BYTES: usize = 64 * 1024;

pub(crate) fn client(fields_max: usize, head_max_bytes: usize) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(head_max_bytes.max(BUFFER_MIN_BYTES));
    if fields_max != BUILT_IN_FIELDS_MAX {
        builder.max_headers(fields_max);
    }
    builder
}
