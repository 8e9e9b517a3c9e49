package shell

func parseZsh(dump []byte) (*snapshot, error) { return nil, errDump }
func parseSh(dump []byte) (*snapshot, error)  { return nil, errDump }
