package python

import (
	"context"
	"encoding/json"
	"fmt"
)

// findMissing prints which of its arguments name modules that cannot be found. It imports none of them.
const findMissing = `
import json, sys
from importlib.util import find_spec
def found(name):
    top = name.partition(".")[0]
    try:
        return top in sys.modules or find_spec(top) is not None
    except (ImportError, ValueError):
        return False
print(json.dumps([name for name in sys.argv[1:] if not found(name)]))
`

// Missing returns which of the modules an interpreter cannot find; of a module of a package, it looks for the package. ctx bounds it.
func Missing(ctx context.Context, interpreter string, modules []string) (missing []string, err error) {
	out, err := runPython(ctx, append([]string{interpreter, "-I", "-c", findMissing}, modules...)...)
	if err != nil {
		return nil, fmt.Errorf("look for modules with %s: %w", interpreter, err)
	}
	if err := json.Unmarshal(out, &missing); err != nil {
		return nil, fmt.Errorf("look for modules with %s: %w", interpreter, err)
	}
	return missing, nil
}
