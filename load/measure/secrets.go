package measure

import (
	"errors"
	"strings"

	"hclbench/load"
	"hclbench/plain"
)

// secrets are the job's, as servers may repeat them: a key is repeated without the
// word before it, too.
func secretsOf(j load.Job) plain.Secrets {
	var words []string
	for _, value := range j.Secrets {
		words = append(words, value, strings.TrimPrefix(value, load.Bearer("")))
	}
	return plain.NewSecrets(words...)
}

// withoutSecrets takes the job's secrets out of what servers have answered: some
// repeat the key that they refuse.
func withoutSecrets(j load.Job, records []load.Record) []load.Record {
	if len(j.Secrets) == 0 {
		return records
	}
	secrets := secretsOf(j)
	for i := range records {
		if r := &records[i]; r.Error != "" || r.Finish != "" && r.Finish != "length" && r.Finish != "stop" {
			r.Error, r.Finish = secrets.Hide(r.Error), secrets.Hide(r.Finish)
		}
	}
	return records
}

func hide(j load.Job, err error) error {
	if text := secretsOf(j).Hide(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}
