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

// TestMakers: who makes a GPU follows from its model.
func TestMakers(t *testing.T) {
	for text, want := range map[string]Vendor{
		"8xMI300X": AMD, "1xW7900": AMD, "2xR9700": AMD, "1xRadeon-RX7900": AMD, "1xRX7900XTX": AMD,
		"8xH200": NVIDIA, "1xRTX4090": NVIDIA, "1xMIG-1g.10gb": NVIDIA, "1xRTXPRO6000": NVIDIA,
	} {
		if g, err := ParseGPUs(text); err != nil || g.Vendor != want {
			t.Errorf("%s is of %q, want %q, %v", text, g.Vendor, want, err)
		}
	}
}

// TestSameMachine: an address is one machine, whatever the block is called.
func TestSameMachine(t *testing.T) {
	at := func(address string, jump *Host) *Host { return &Host{Name: address, Address: address, Jump: jump} }
	gate, other := at("gate", nil), at("other", nil)
	pod := &Host{Name: "p", Cluster: &Cluster{}}
	for _, c := range []struct {
		a, b *Host
		want bool
	}{
		{at("203.0.113.7", nil), at("203.0.113.7:22", nil), true}, {at("Box", nil), at("box", nil), true},
		{at("203.0.113.7", nil), at("203.0.113.7:2222", nil), false}, {at("10.0.0.1", gate), at("10.0.0.1", gate), true},
		{at("10.0.0.1", gate), at("10.0.0.1", other), false}, {at("10.0.0.1", gate), at("10.0.0.1", nil), false},
		{pod, &Host{Name: "q", Cluster: pod.Cluster}, false}, {pod, pod, true},
	} {
		if got := c.a.SameMachine(c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}
