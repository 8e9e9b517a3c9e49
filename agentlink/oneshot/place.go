package oneshot

import "errors"

// place is where one program runs: a folder of its own, and what starts and ends it.
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

// dead says that its program, or what starts one, has ended.
func (p *place) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// discard ends a place.
func (p *place) discard() error {
	p.kill()
	p.bury()
	return errors.Join(p.pipes.close(), p.folder.remove())
}
