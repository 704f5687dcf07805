package accuracy

import "testing"

func TestFractionsAreDecimal(t *testing.T) {
	for text, want := range map[string]string{"010/2": "5", "05/10": "1/2", "08/4": "2", "3/4": "3/4", "-0": "0", "1,000.0": "1000", "1e3": "1000"} {
		if n, ok := number(text); !ok || n.RatString() != want {
			t.Errorf("number(%q) = %v, %v; want %s", text, n, ok, want)
		}
	}
	if _, ok := number("1/0"); ok {
		t.Error("1/0 is a number")
	}
}
