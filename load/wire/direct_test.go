package wire

import (
	"net/http"
	"testing"
)

// TestDirectHasNoProxy: net/http asks the environment only when it is told to.
func TestDirectHasNoProxy(t *testing.T) {
	if Direct().Transport.(*http.Transport).Proxy != nil {
		t.Error("there is a proxy")
	}
}
