package registry

// BuiltOn lists the nodes that have an environment on their disks, as they last
// said. The list is shared and must not be changed.
func (v View) BuiltOn(venv int) []NodeID {
	if e := v.tables().venv(venv); e != nil {
		return e.Built
	}
	return nil
}
