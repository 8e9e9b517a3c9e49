package gateway

import "time"

// NewFake is the fake Service for tests from outside. Each of its calls says
// lines, pausing before each, and ends.
func NewFake(lines []string, pause time.Duration) Service {
	f := newFake()
	f.onStart = func(c *fakeCall) {
		go func() {
			offset := int64(0)
			for _, line := range lines {
				time.Sleep(pause) // the pace of the output
				offset += int64(len(line))
				data, err := encode(map[string]string{"text": line})
				if err != nil {
					panic(err)
				}
				c.say("stdout", string(data), offset)
			}
			c.finish()
		}()
	}
	return f
}
