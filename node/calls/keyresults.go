package calls

import (
	"slices"
	"strings"
	"time"
)

// keptResults says which keys have a result on disk, and which results have to go.
type keptResults struct {
	perActor, all int                      // the bounds in bytes
	actors        map[string]*actorResults // by actor id
	bytes         int                      // of all actors together
}

// actorResults are the results of one actor's keys, the oldest first.
type actorResults struct {
	results []keptResult // oldest first
	bytes   int
}

type keptResult struct {
	name  string // the key under which the result is stored
	at    time.Time
	bytes int
}

func (k *keptResults) reset() { k.actors, k.bytes = map[string]*actorResults{}, 0 }

func (k *keptResults) add(name string, at time.Time, size int) {
	id, _, _ := strings.Cut(name, "\x00")
	a := k.actors[id]
	if a == nil {
		a = new(actorResults)
		k.actors[id] = a
	}
	a.results = append(a.results, keptResult{name, at, size})
	a.bytes += size
	k.bytes += size
}

// sort restores the order after results were added in the order of their names.
func (k *keptResults) sort() {
	for _, a := range k.actors {
		slices.SortFunc(a.results, func(x, y keptResult) int { return x.at.Compare(y.at) })
	}
}

// excess takes out the results that are beyond the bounds, and returns their names. They are
// the oldest of an actor that has too much, but not its latest, or, if all actors together
// have too much, of the one that has most.
func (k *keptResults) excess() (names []string) {
	for {
		most := k.largest()
		if most == nil || k.bytes <= k.all && (most.bytes <= k.perActor || len(most.results) < 2) {
			return names
		}
		old := most.results[0]
		most.results[0] = keptResult{}
		most.results = most.results[1:]
		most.bytes -= old.bytes
		k.bytes -= old.bytes
		names = append(names, old.name)
	}
}

func (k *keptResults) largest() (most *actorResults) {
	for _, a := range k.actors {
		if most == nil || a.bytes > most.bytes {
			most = a
		}
	}
	return most
}
