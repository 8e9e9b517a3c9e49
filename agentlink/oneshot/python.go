package oneshot

import (
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/locusrun/locus/node/kernel/python/worker"
)

var (
	//go:embed start.py
	startText string
	//go:embed machine.py
	machineText string
)

// modulesText is the worker's modules and the main one, as JSON.
var modulesText = sync.OnceValues(func() (json.RawMessage, error) {
	modules, err := worker.Modules()
	if err != nil {
		return nil, err
	}
	modules["machine"] = machineText
	return json.Marshal(modules)
})

// newToken makes what the frames of one program begin with.
func newToken() []byte {
	token := make([]byte, tokenSize)
	_, _ = rand.Read(token) // never fails: see crypto/rand
	return token
}

// bundle is what an interpreter reads first: its length and all that it needs to run one
// program, but not the program.
func bundle(token []byte) ([]byte, error) {
	modules, err := modulesText()
	if err != nil {
		return nil, err
	}
	boot, err := worker.Module("boot")
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(struct {
		Boot    string          `json:"boot"`
		Modules json.RawMessage `json:"modules"`
		Token   string          `json:"token"`
	}{boot, modules, hex.EncodeToString(token)})
	if err != nil {
		return nil, fmt.Errorf("pack what a program needs: %w", err)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...), nil
}

// interpreter is Python, started, that waits for its one program.
type interpreter struct {
	*place
	hear *frames
	say  *toProgram
	feed func() error
	// greeted says that it has told that it is ready.
	greeted bool
}

// startInterpreter starts Python in a folder of its own. It needs to be fed before it
// can run anything.
func startInterpreter(path, dir string) (*interpreter, error) {
	at, err := newPlace(dir)
	if err != nil {
		return nil, err
	}
	token := newToken()
	p := &interpreter{place: at, hear: newFrames(at.from, token), say: &toProgram{to: at.to}}
	p.feed = sync.OnceValue(func() error {
		text, err := bundle(token)
		if err != nil {
			return err
		}
		_, err = at.to.Write(text)
		return err
	})
	env := append(environment(os.Environ()), "MPLBACKEND=Agg")
	if err := at.start(spec{Path: path, Args: []string{path, "-c", startText}, Env: env, Dir: at.folder.work, Talks: true}); err != nil {
		return nil, errors.Join(err, p.discard())
	}
	return p, nil
}

// wait feeds an interpreter and returns when it is ready. Killing it ends the wait.
func (p *interpreter) wait() error {
	if err := p.feed(); err != nil {
		return fmt.Errorf("start an interpreter: %w", err)
	}
	if _, _, err := p.hear.next(); err != nil {
		return fmt.Errorf("start an interpreter: %w", err)
	}
	p.greeted = true
	return nil
}
