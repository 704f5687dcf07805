package provision

import "testing"

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		bounds, version string
		want            bool
	}{
		{">= 550.144", "550.144.03", true},
		{">= 550.144", "550.90.07", false},
		{">= 550.144", "570", true},
		{">=550, < 580", "579.99", true},
		{">=550, < 580", "580.0", false},
		{"> 6.3", "6.3.0", false},
		{"<= 6.3.1", "6.3.1-48", true},
		{"550.144", "550.144.0", true},
		{"= 550.144", "550.144.1", false},
		{">= 550", "unknown", false},
	} {
		v, err := ParseVersions(c.bounds)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Allow(c.version); got != c.want {
			t.Errorf("%q allows %q: %v, want %v", v, c.version, got, c.want)
		}
	}
	if !Versions(nil).Allow("anything") {
		t.Error("no bounds do not allow everything")
	}
	for _, s := range []string{"", "new", ">=", ">= v550", "~> 5.0", "550,"} {
		if v, err := ParseVersions(s); err == nil {
			t.Errorf("ParseVersions(%q) = %q, want an error", s, v)
		}
	}
	if got, want := mustVersions(t, ">=550,<580").String(), ">= 550, < 580"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}

func mustVersions(t *testing.T, s string) Versions {
	t.Helper()
	v, err := ParseVersions(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
