package threads

import "testing"

func TestThreads(t *testing.T) {
	for _, c := range []struct {
		processors, allowed int
		named               string
		want                int
	}{
		{1, 1, "", 2},
		{2, 2, "", 3},
		{4, 4, "", 6},
		{8, 8, "", 0},
		{2, 2, "2", 0},
		{4, 2, "", 0}, // a container's share
	} {
		if got := threads(c.processors, c.allowed, c.named); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
