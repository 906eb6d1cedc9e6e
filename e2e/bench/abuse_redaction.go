package main

import (
	"time"

	"talaria/api"
)

// overlappingSecret is a text in which a secret begins at each character.
var overlappingSecret = abuse{
	id: "overlapping-secret", what: "150,000 characters, at each of which a secret begins", harm: takes,
	pass: inSession(api.SessionRequest{Secrets: &map[string]string{"K": "aaaaaaaa"}}, `print("a" * 150_000, end="")`),
}

// endlessSecret is a text that as a whole may be a secret, as the operator describes them.
var endlessSecret = abuse{
	id: "endless-secret", what: "10 MB that one of the operator's patterns matches as a whole", harm: takes,
	flavour: flavour{redact: "sk-[A-Za-z0-9]+"},
	pass: inSession(api.SessionRequest{}, `
import sys
sys.stdout.write("sk-")
for _ in range(160): sys.stdout.write("a" * 65_536)
print()`),
}

// takes is how long the cell of a pass takes, until the server says that it has ended.
var takes = &harm{
	metric: metric{what: "until the cell has ended", unit: "s", p50: 2},
	begin: func(o *owner) (func() (float64, error), error) {
		return func() (float64, error) {
			began := o.began.Load()
			if began == 0 {
				return 0, nil
			}
			return time.Since(time.Unix(0, began)).Seconds(), nil
		}, nil
	},
}
