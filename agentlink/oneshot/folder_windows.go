package oneshot

const openFlags = 0
