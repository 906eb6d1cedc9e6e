package record

import "encoding/json"

// MaxExpressions bounds the values of an execution's expressions, in bytes of JSON.
const MaxExpressions = 1 << 20

// Expressions has the values of an execution's expressions: a JSON object from their names to Jupyter's representation
// of a value or an exception.
type Expressions struct{ Values json.RawMessage }

func (Expressions) record() {}
