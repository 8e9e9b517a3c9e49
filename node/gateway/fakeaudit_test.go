package gateway

import (
	"context"
	"time"

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/surfaces"
)

func (f *fake) asked(q AuditQuery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.query = q
}

func (f *fake) Audit(_ context.Context, _ Caller, q AuditQuery) (AuditList, error) {
	f.asked(q)
	id, name := 3, "s"
	return AuditList{Entries: []audit.Entry{{
		Seq: 1, At: time.Now(), Kind: audit.CallEnded, Actor: "alice", SessionID: &id, SessionName: &name, VenvID: &id, Primitive: &audit.Primitive{},
		Detail: map[string]string{"a": "b"}, StateDiff: &surfaces.StateDiff{Added: []string{"x"}}, Status: surfaces.StatusDone,
	}}, Failures: []NodeFailure{{Node: "n2", Error: "gone"}}}, f.refuse
}

func (f *fake) FollowAudit(_ Caller, q AuditQuery) (Stream[AuditItem], error) {
	f.asked(q)
	return func(ctx context.Context, emit func(AuditItem) error) error {
		if err := emit(AuditItem{ID: "n1.0.7", Entry: &audit.Entry{Seq: 7, Kind: audit.CallStarted}}); err != nil {
			return err
		}
		if err := emit(AuditItem{ID: "n1.0.7", Failure: &NodeFailure{Node: "n2", Error: "gone"}}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}, f.refuse
}

func (f *fake) VerifyAudit(_ context.Context, _ Caller, node string) (AuditVerdicts, error) {
	return AuditVerdicts{Reports: []audit.Report{{Node: node, Fault: &audit.Fault{Seq: 2, Kind: audit.FaultCut}}}}, f.refuse
}
