package battery

import (
	"fmt"

	"talaria/api"
)

// outputSecrets are attempts to keep the server busy with removing secrets from the output.
var outputSecrets = []Check{
	{Name: "output/secret-of-itself", Quick: true, Alone: true, Judge: judgeSecretOfItself},
}

// judgeSecretOfItself prints a text in which a secret begins at every position.
func judgeSecretOfItself(t *Trial) error {
	id, err := t.NewSession(func(req *api.SessionRequest) { req.Secrets = &map[string]string{"WORD": "aaaaaaaa"} })
	if err != nil {
		return err
	}
	e, err := t.RunIn(id, api.ExecutionRequest{Code: new(`print("a" * 150_000, end="")`)})
	if err != nil {
		return err
	}
	if e.Text != "[redacted]" {
		return fmt.Errorf("the text has %d bytes: %.300q", len(e.Text), e.Text)
	}
	return t.Works()
}
