package python

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/python/worker"
)

// bootCommand makes the interpreter run the boot file, which it has as descriptor 5.
// The worker is never read from a disk, which an agent's code could write to.
const bootCommand = "boot = open(5, encoding='utf-8').read(); exec(boot)"

// bundle returns two files in memory: the worker's modules as one JSON object, and
// the boot module, which loads them.
func bundle() (modules, boot *os.File, err error) {
	sources, err := worker.Modules()
	if err != nil {
		return nil, nil, err
	}
	first := []byte(sources["boot"])
	delete(sources, "boot")
	text, err := json.Marshal(sources)
	if err != nil {
		return nil, nil, fmt.Errorf("pack the worker: %w", err)
	}
	if modules, err = kernel.MemoryFile("worker", text); err != nil {
		return nil, nil, err
	}
	if boot, err = kernel.MemoryFile("boot", first); err != nil {
		modules.Close()
		return nil, nil, err
	}
	return modules, boot, nil
}
