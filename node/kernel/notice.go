package kernel

// NoticeSerialised is the kind of the notice about a session that could not be
// forked and was copied by serialising its values, which not every object survives.
const NoticeSerialised = "serialised"
