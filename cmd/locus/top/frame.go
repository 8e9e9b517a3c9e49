package top

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// kind is the style of a line.
type kind uint8

const (
	plain kind = iota
	heading
	trouble // needs an operator's attention
	chosen  // the selected call
	quiet
)

// line is one line of a frame. It has no control characters.
type line struct {
	text string
	kind kind
}

// view is how a snapshot is shown. Width and Height are the screen's size in cells; 0 is
// unbounded.
type view struct {
	width, height int
	order         Order
	chosen        string // id of the selected call
	note          string // line under the title; may be empty
}

// Text renders a whole snapshot for output that is not a terminal.
func Text(s Snapshot, by Order) string {
	s.Sort(by)
	var b strings.Builder
	for _, l := range frame(s, view{order: by}) {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

// frame renders a sorted snapshot: a title and a table for each kind of thing. If the
// screen is too low, tables are cut and say by how much.
func frame(s Snapshot, v view) []line {
	lines := []line{{title(s), heading}}
	if v.note != "" {
		lines = append(lines, line{v.note, plain})
	}
	tables := []table{nodeTable(s), callTable(s, v.chosen), sessionTable(s), machineTable(s)}
	room := rooms(tables, v.height-len(lines)-2*len(tables), v.height == 0)
	for i, t := range tables {
		lines = append(lines, line{}, line{t.heading, heading})
		lines = append(lines, t.within(room[i])...)
	}
	for i := range lines {
		if v.width > 0 {
			lines[i].text = ansi.Truncate(lines[i].text, v.width, "…")
		}
	}
	if v.height > 0 && len(lines) > v.height {
		lines = lines[:v.height]
	}
	return lines
}

// rooms divides the lines among the tables: each gets what it needs, or an equal share of
// what the others leave.
func rooms(tables []table, lines int, unbounded bool) []int {
	room := make([]int, len(tables))
	for i, t := range tables {
		if unbounded {
			room[i] = len(t.rows)
		}
	}
	for !unbounded && lines > 0 {
		given := 0
		for i, t := range tables {
			if room[i] < len(t.rows) && given < lines {
				room[i]++
				given++
			}
		}
		if given == 0 {
			break
		}
		lines -= given
	}
	return room
}

// table has the rows of one kind of thing.
type table struct {
	heading string
	rows    []line
}

// within returns at most n lines of the table, including the selected row.
func (t table) within(n int) []line {
	if len(t.rows) <= n {
		return t.rows
	}
	if n == 0 {
		return nil
	}
	first := 0
	if at := slices.IndexFunc(t.rows, func(l line) bool { return l.kind == chosen }); at >= n-1 {
		first = min(at-n+2, len(t.rows)-n+1)
	}
	rows := slices.Clone(t.rows[first:][:n-1])
	return append(rows, line{fmt.Sprintf("  … %d more", len(t.rows)-n+1), quiet})
}

// laidOut makes a table from cells, with the column names as its heading.
func laidOut(headings []string, cells [][]string, kinds []kind) table {
	var b bytes.Buffer
	for i := range cells {
		cells[i][0] = map[bool]string{true: "> ", false: "  "}[kinds[i] == chosen] + cells[i][0]
	}
	headings[0] = "  " + headings[0]
	if err := present.Table(&b, headings, cells); err != nil {
		panic(err) // cannot fail: it is a buffer
	}
	text := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	t := table{heading: text[0]}
	for i, row := range text[1:] {
		t.rows = append(t.rows, line{row, kinds[i]})
	}
	return t
}

func title(s Snapshot) string {
	who := s.Status.Actor
	if s.Status.Operator {
		who += ", operator"
	}
	leader := "without a leader"
	if s.Status.Leader != "" {
		leader = "led by " + s.Status.Leader
	}
	mesh := fmt.Sprintf("%d nodes, %s", len(s.Nodes), leader)
	if len(s.Nodes) == 1 {
		mesh = "1 node, " + leader
	}
	return present.Sanitise(strings.Join([]string{
		"locus top " + s.At.Format("15:04:05"), s.Status.Node + " " + s.Status.Version, "as " + who, present.Bytes(s.Status.MemoryAvailableBytes) + " free", mesh,
	}, "  ·  "))
}

func nodeTable(s Snapshot) table {
	var rows [][]string
	var kinds []kind
	for _, n := range s.Nodes {
		state, k := n.State, plain
		if n.State != "up" {
			k = trouble
		}
		if n.Draining {
			state += ", draining"
		}
		if n.MemoryShort {
			state, k = state+", short of memory", trouble
		}
		memory := "-"
		if n.MemoryBytes > 0 {
			memory = present.Bytes(n.MemoryBytes)
		}
		role := "follower"
		if n.Leader {
			role = "leader"
		} else if n.Voter {
			role = "voter"
		}
		rows = append(rows, []string{n.ID, state, role, strconv.Itoa(n.Sessions), strconv.Itoa(n.Running), memory, cmp.Or(labels(n.Labels), "-")})
		kinds = append(kinds, k)
	}
	return laidOut([]string{"NODE", "STATE", "ROLE", "SESSIONS", "RUNNING", "MEMORY", "LABELS"}, rows, kinds)
}

func labels(of map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, k+"="+of[k])
	}
	return strings.Join(parts, ",")
}

func callTable(s Snapshot, id string) table {
	var rows [][]string
	var kinds []kind
	for _, c := range s.Calls {
		state, k := string(c.Status), plain
		if c.Paused {
			state = "paused"
		}
		if c.CallID == id {
			k = chosen
		}
		why := c.Thought
		if c.Function != "" {
			why = strings.TrimSuffix("function "+c.Function+": "+why, ": ")
		}
		rows = append(rows, []string{
			present.Duration(max(0, s.At.Sub(c.StartedAt))), state, string(c.Language), string(c.StateMode), cmp.Or(callSession(c), "-"),
			c.CallID, cmp.Or(present.Clip(why, 60), "-"),
		})
		kinds = append(kinds, k)
	}
	return laidOut([]string{fmt.Sprintf("CALL (%d) FOR", len(rows)), "STATE", "LANGUAGE", "MODE", "SESSION", "ID", "WHY"}, rows, kinds)
}

func callSession(c gateway.CallSummary) string {
	switch {
	case c.SessionName != nil:
		return *c.SessionName
	case c.SessionID != nil:
		return "#" + strconv.Itoa(*c.SessionID)
	}
	return ""
}

func sessionTable(s Snapshot) table {
	var rows [][]string
	var kinds []kind
	for _, e := range s.Sessions {
		state, k := e.State, plain
		if e.State == "lost" || e.State == "unreachable" {
			k = trouble
		}
		if lost := e.StateLost.Loss; lost != nil {
			state += " (" + lost.Reason + ")"
		}
		language := string(e.Language)
		if e.VenvID != nil && e.Language == surfaces.Python {
			language += ", environment " + strconv.Itoa(*e.VenvID)
		}
		rows = append(rows, []string{
			sessionName(e), language, state, strconv.FormatUint(e.Epoch, 10), strconv.FormatInt(e.Calls, 10),
			present.Bytes(e.MemoryBytes), present.Ago(e.LastUsedAt, s.At), e.Node,
		})
		kinds = append(kinds, k)
	}
	return laidOut([]string{fmt.Sprintf("SESSION (%d of %d)", len(rows), s.Limit), "LANGUAGE", "STATE", "EPOCH", "CALLS", "MEMORY", "USED", "NODE"}, rows, kinds)
}

func sessionName(s gateway.SessionInfo) string {
	if s.SessionName != nil {
		return *s.SessionName
	}
	return "#" + strconv.Itoa(s.SessionID)
}

func machineTable(s Snapshot) table {
	var rows [][]string
	var kinds []kind
	for _, m := range s.Machines {
		seen, k := "now", plain
		if m.State != gateway.MachineConnected {
			seen, k = present.Ago(m.LastSeenAt, s.At), quiet
		}
		rows = append(rows, []string{m.Name, m.Actor, string(m.Surface), m.State, cmp.Or(strings.Trim(m.OS+"/"+m.Arch, "/"), "-"), cmp.Or(m.Consent, "-"), seen})
		kinds = append(kinds, k)
	}
	return laidOut([]string{fmt.Sprintf("MACHINE (%d)", len(rows)), "ACTOR", "SURFACE", "STATE", "SYSTEM", "CONSENT", "SEEN"}, rows, kinds)
}
