package origin

import (
	"fmt"
	"net/http"
	"testing"

	"hclbench/testhost"
)

const commit = "56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad"

// hub is the model hub's API, with one model behind a token.
func hub(t *testing.T) string {
	return "http://" + serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/api/models/org/open/revision/main", "/api/models/org/open/revision/refs%2Fpr%2F1":
			fmt.Fprintf(w, `{"id":"org/open","sha":%q,"private":false}`, commit)
		case "/api/models/org/odd/revision/main":
			fmt.Fprint(w, `{"sha":"main"}`)
		case "/api/models/org/gated/revision/main":
			if r.Header.Get("Authorization") != "Bearer hf_s3cret" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			fmt.Fprintf(w, `{"sha":%q}`, commit)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
}

func TestCommit(t *testing.T) {
	r := &Hub{URL: hub(t) + "/"}
	for _, m := range [][2]string{{"org/open", ""}, {"org/open", "main"}, {"org/open", "refs/pr/1"}} {
		if got, err := r.Commit(t.Context(), m[0], m[1]); err != nil || got != commit {
			t.Errorf("Commit(%v) = %q, %v", m, got, err)
		}
	}
	_, err := r.Commit(t.Context(), "org/none", "")
	testhost.WantError(t, err, ErrNotFound)
	if _, err := r.Commit(t.Context(), "org/odd", ""); err == nil {
		t.Error("a sha that is none was accepted")
	}
	_, err = r.Commit(t.Context(), "org/gated", "")
	testhost.WantError(t, err, ErrAccess, "set HF_TOKEN")
	r.Token = "hf_s3cret"
	if got, err := r.Commit(t.Context(), "org/gated", ""); err != nil || got != commit {
		t.Errorf("with a token: %q, %v", got, err)
	}
}
