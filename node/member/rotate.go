package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/registry"
)

// methodReport returns which roots a node trusts and which issued its certificate.
const methodReport = "member/report"

// reportWithin bounds the wait for the reports of all nodes.
const reportWithin = 3 * time.Second

// Step is a step of a rotation of the authority's root.
type Step string

// The steps.
const (
	Begin    Step = "begin"
	Advance  Step = "advance"
	Rollback Step = "rollback"
)

// ErrBadStep: there is no such step.
var ErrBadStep = errors.New("member: no such step")

// AuthorityState is the state of the authority and of its rotation.
type AuthorityState struct {
	Phase certs.Phase
	// Pins are those of the trusted roots, the issuing root first.
	Pins []certs.Pin
	// Holders are the nodes that can issue, Waiting those that block the next step.
	Holders, Waiting []string
}

// report is what methodReport returns.
type report struct {
	certs.Report
	Holds bool `json:"holds"`
}

func (m *Member) reportMethod() mesh.Method {
	return peer.JSONMethod(mesh.Control, func(context.Context, certs.Identity, struct{}) (report, error) {
		return report{m.credentials.Report(), m.CanIssue()}, nil
	})
}

// reports asks every node that is not expired. A node that does not answer gets a report
// without roots, which blocks the next step.
func (m *Member) reports(ctx context.Context) ([]certs.Report, []string) {
	ctx, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	var all []certs.Report
	holders := []string{}
	for _, node := range m.registry.View().Nodes() {
		if node.State == registry.NodeExpired {
			continue
		}
		got := report{m.credentials.Report(), m.CanIssue()}
		if node.ID != m.ID() {
			var err error
			if got, err = peer.CallJSON[report](ctx, m.mesh, string(node.ID), methodReport, struct{}{}); err != nil {
				m.log.Warn("a node did not report its trust roots", "node", node.ID, "error", err)
				got = report{Report: certs.Report{Identity: certs.Identity{Cluster: m.Cluster(), Role: certs.RoleNode, ID: string(node.ID)}}}
			}
		}
		all = append(all, got.Report)
		if got.Holds {
			holders = append(holders, string(node.ID))
		}
	}
	return all, holders
}

// Authority returns the state of the authority.
func (m *Member) Authority(ctx context.Context) (AuthorityState, error) {
	rotation, err := m.rotation()
	if err != nil {
		return AuthorityState{}, err
	}
	trust, err := rotation.Trust()
	if err != nil {
		return AuthorityState{}, err
	}
	live, holders := m.reports(ctx)
	at := AuthorityState{Phase: rotation.Phase, Pins: trust.Pins(), Holders: holders, Waiting: []string{}}
	if _, err := rotation.Advance(live); rotation.Phase != certs.PhaseSteady {
		var waiting *certs.NotReadyError
		if errors.As(err, &waiting) {
			for _, id := range waiting.Waiting {
				at.Waiting = append(at.Waiting, id.ID)
			}
		}
	}
	return at, nil
}

// Rotate takes one step of a rotation. Begin needs a node that holds the authority.
func (m *Member) Rotate(ctx context.Context, step Step) (AuthorityState, error) {
	if _, err := m.registry.Fresh(ctx); err != nil {
		return AuthorityState{}, err
	}
	rotation, err := m.rotation()
	if err != nil {
		return AuthorityState{}, err
	}
	generation := m.registry.View().Trust().Generation
	var next certs.Rotation
	switch step {
	case Begin:
		next, err = m.beginRotation(rotation)
	case Advance:
		live, _ := m.reports(ctx)
		next, err = rotation.Advance(live)
	case Rollback:
		live, _ := m.reports(ctx)
		next, err = rotation.Rollback(live)
	default:
		err = fmt.Errorf("%w: %.40q", ErrBadStep, step)
	}
	if err != nil {
		return AuthorityState{}, err
	}
	roots := [][]byte{next.Current}
	if next.Next != nil {
		roots = append(roots, next.Next)
	}
	out, err := m.registry.SetTrust(ctx, registry.SetTrust{Generation: generation, Phase: string(next.Phase), Roots: roots})
	if err != nil {
		return AuthorityState{}, err
	}
	if out.Result != registry.Swapped {
		return AuthorityState{}, fmt.Errorf("%w: somebody else has taken a step meanwhile", certs.ErrBadPhase)
	}
	m.log.Info("the authority's root is being changed", "step", step, "phase", next.Phase)
	return m.Authority(ctx)
}

// beginRotation makes the next root, cross-signed by the current one. The other voters
// fetch its key by methodShare.
func (m *Member) beginRotation(rotation certs.Rotation) (certs.Rotation, error) {
	if rotation.Phase != certs.PhaseSteady {
		return rotation, fmt.Errorf("%w: begin in %s", certs.ErrBadPhase, rotation.Phase)
	}
	now := time.Now()
	old := m.issuing()
	if old == nil {
		return rotation, ErrNoAuthority
	}
	next, err := certs.NewAuthority(m.Cluster(), now)
	if err != nil {
		return rotation, err
	}
	cross, err := old.CrossSign(next.Root(), now)
	if err != nil {
		return rotation, err
	}
	if next, err = next.WithCross(cross); err != nil {
		return rotation, err
	}
	begun, err := rotation.Begin(next.Root())
	if err != nil {
		return rotation, err
	}
	return begun, m.keep(next)
}

// holdsAll reports whether this node has the key of every trusted root.
func (m *Member) holdsAll() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(m.credentials.Trust().Pins(), func(p certs.Pin) bool { return m.authority[p] == nil })
}
