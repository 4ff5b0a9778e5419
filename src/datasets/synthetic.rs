//! x
/// T
#[derive(Clone, Debug)]
pub struct Truth {}
