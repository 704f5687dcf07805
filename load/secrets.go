package load

import (
	"errors"
	"strings"
)

// hidden stands where a secret stood.
const hidden = "(sensitive)"

// shortestShown is how much of a secret may be seen where an answer was cut off in
// the middle of it.
const shortestShown = 4

// withoutSecrets takes the job's secrets out of what servers have answered: some
// repeat the key that they refuse.
func (j Job) withoutSecrets(records []Record) []Record {
	if len(j.Secrets) == 0 {
		return records
	}
	for i := range records {
		records[i].Error = j.hideIn(records[i].Error)
	}
	return records
}

// hide is err without the job's secrets.
func (j Job) hide(err error) error {
	if text := j.hideIn(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

func (j Job) hideIn(text string) string {
	for _, value := range j.Secrets {
		// A key is repeated without the word before it, too.
		for _, secret := range []string{value, strings.TrimPrefix(value, Bearer(""))} {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, hidden)
			}
			for n := len(secret) - 1; n >= shortestShown; n-- { // one that was cut off
				text = strings.ReplaceAll(text, secret[:n]+"…", hidden+"…")
			}
		}
	}
	return text
}
