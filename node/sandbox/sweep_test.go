package sandbox

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A look also tries the numbers above the highest of /proc, where the newest threads
// are. One that took a thread of the keeper for a process stopped the keeper, which then
// outlived its node.
func TestALookFindsProcessesAndNotTheirThreads(t *testing.T) {
	weaver := exec.CommandContext(t.Context(), "/proc/self/exe")
	weaver.Env = append(os.Environ(), roleVariable+"=weaver")
	in, err := weaver.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := weaver.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	weaver.Stderr = t.Output()
	if err := weaver.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := weaver.Wait(); err != nil {
			t.Error(err)
		}
	}()
	mark := tag{container: newContainerTag(), group: newGroupTag()}
	if err := setTag(weaver.Process.Pid, mark); err != nil {
		t.Fatal(err)
	}
	if isThread(weaver.Process.Pid) {
		t.Error("a process is taken for a thread")
	}
	said := bufio.NewReader(out)
	numbers := []int{weaver.Process.Pid}
	for range 20 {
		if _, err := in.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		line, err := said.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		thread, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, thread)
	}
	f := findAmong(numbers, mark.container, func(int, tag) bool { return true })
	if alive := slices.Compact(f.alive); !slices.Equal(alive, []int{weaver.Process.Pid}) || len(f.ended) > 0 {
		t.Fatalf("process %d with the threads %v is found as %v", weaver.Process.Pid, numbers, f.alive)
	}
}
