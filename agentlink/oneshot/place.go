package oneshot

import "errors"

// place is a folder and a process tree for one program.
type place struct {
	*tree
	folder *folder
}

func newPlace(dir string) (*place, error) {
	f, err := newFolder(dir)
	if err != nil {
		return nil, err
	}
	t, err := newTree(newMark())
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return &place{tree: t, folder: f}, nil
}

// exited reports whether its process has ended.
func (p *place) exited() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// discard kills and removes a place.
func (p *place) discard() error {
	p.kill()
	p.awaitSupervisor()
	return errors.Join(p.pipes.close(), p.folder.remove())
}
