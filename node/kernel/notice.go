package kernel

// NoticeSerialised is the kind of the notice about a copy that could not be forked
// and was written out and read again: it has the values, and is not the same.
const NoticeSerialised = "serialised"
