package apply

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestExcerpt(t *testing.T) {
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, "line %02d\n", i)
	}
	text := lines.String() // 800 bytes
	for _, test := range []struct {
		begin, end int
		want       string
	}{
		{1000, 10, text},
		{800, 10, text},
		{100, 700, text},
		{20, 20, "line 00\nline 01\n… 768 bytes are left out …\nline 98\nline 99\n"},
		{3, 9, "… 792 bytes are left out …\nline 99\n"},
	} {
		got, err := excerpt(iotest.OneByteReader(strings.NewReader(text)), test.begin, test.end)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Errorf("excerpt(%d, %d) (-want +got):\n%s", test.begin, test.end, diff)
		}
	}
}
