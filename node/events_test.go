package node

import (
	"context"
	"errors"
	"testing"

	"github.com/locusrun/locus/node/gateway"
)

// told gives so many of the events after a position.
func told(t *testing.T, e *events, after gateway.Position, count int) (list []gateway.MeshEvent) {
	t.Helper()
	enough := errors.New("enough")
	err := e.follow(t.Context(), after, func(ev gateway.MeshEvent) error {
		if list = append(list, ev); len(list) == count {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return list
}

func TestEventsStartFromAPosition(t *testing.T) {
	e := &events{boot: 7}
	for range 10 {
		e.publish("kind", nil)
	}
	if list := told(t, e, gateway.Position{Boot: 7, Seq: 4}, 6); list[0].Seq != 5 || list[5].Seq != 10 || list[0].Boot != 7 {
		t.Errorf("got %+v, want list[0].Seq 5, list[5].Seq 10, list[0].Boot 7", list)
	}
	// Events of another run of the node are not known.
	if list := told(t, e, gateway.Position{Boot: 6, Seq: 400}, 11); list[0].Kind != "dropped" || string(list[0].Data) != `{"events":null}` || list[1].Seq != 1 || list[10].Seq != 10 {
		t.Errorf("%+v", list)
	}
	for range eventsRetained {
		e.publish("kind", nil)
	}
	list := told(t, e, gateway.Position{Boot: 7, Seq: 4}, 1+eventsRetained)
	if list[0].Kind != "dropped" || string(list[0].Data) != `{"events":6}` || list[0].Seq != 10 || list[1].Seq != 11 || list[eventsRetained].Seq != 10+eventsRetained {
		t.Errorf("%+v ... %+v", list[:2], list[eventsRetained])
	}
}

// A slow reader misses the events that are no longer buffered, and is told how many.
func TestASlowReaderOfEvents(t *testing.T) {
	e := &events{boot: 7}
	ctx, enough := context.WithCancel(t.Context())
	var seen, missed int64
	const last = 3*eventsRetained + 1
	began := make(chan struct{})
	go func() {
		<-began
		for range last - 1 {
			e.publish("kind", nil)
		}
		began <- struct{}{}
	}()
	e.publish("kind", nil)
	err := e.follow(ctx, gateway.Position{Boot: 7}, func(ev gateway.MeshEvent) error {
		switch {
		case ev.Seq == 1:
			began <- struct{}{}
			<-began // all events have been published meanwhile
			seen++
		case ev.Kind == "dropped":
			missed = ev.Seq - 1
		default:
			seen++
		}
		if ev.Seq == last {
			enough()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || seen != 1+eventsRetained || seen+missed != last {
		t.Errorf("%d seen, %d missed of %d: %v", seen, missed, last, err)
	}
}
