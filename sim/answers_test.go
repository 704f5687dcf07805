package sim

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestAnswersOfATable: whose question stands last is answered, and the answer stops; who asks something else hears what all hear.
func TestAnswersOfATable(t *testing.T) {
	server := httptest.NewServer(New(Config{TTFT: -1, ITL: -1, Answers: []Answer{{"2 + 2", "four, \"4\""}, {"2 + 3", "5"}}}))
	t.Cleanup(server.Close)
	for _, x := range []struct {
		asked, text, finish string
		most                int
	}{
		{"what is 2 + 2", `four, "4"`, "stop", 16},
		{"2 + 2 is 4. And 2 + 3?", "5", "stop", 16},
		{"2 + 2", "four,", "length", 1},
		{"who", " the of", "length", 2},
	} {
		body, err := json.Marshal(map[string]any{"messages": []any{map[string]string{"role": "user", "content": x.asked}}, "max_tokens": x.most})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(server.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Choices []struct {
				Message struct{ Content string }
				Finish  string `json:"finish_reason"`
			}
		}
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if c := got.Choices[0]; c.Message.Content != x.text || c.Finish != x.finish {
			t.Errorf("%q is answered %q, %s; want %q, %s", x.asked, c.Message.Content, c.Finish, x.text, x.finish)
		}
	}
}
