package python

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"talaria/kernel"
)

// ErrNoPip reports that an environment cannot install packages.
var ErrNoPip = errors.New("this environment has no pip; install it there (on Debian: apt-get install python3-pip)")

// askPip prints the index that pip uses: from its configuration files, its variables, or its default.
const askPip = `
from pip._internal.commands import create_command
options, _ = create_command("download").parse_args([])
print("" if options.no_index else options.index_url)
`

// PackageIndex returns the address of the index that the environment's own pip installs from. It may contain
// credentials. It returns ErrNoPip without a pip. ctx bounds it.
func PackageIndex(ctx context.Context, env kernel.Environment) (string, error) {
	if _, err := runPython(ctx, env.Python, "-c", "import pip"); err != nil {
		return "", ErrNoPip
	}
	out, err := runPython(ctx, env.Python, "-c", askPip)
	if err != nil {
		return "", fmt.Errorf("ask pip of %s for its index: %w", env.Python, err)
	}
	url := strings.TrimSpace(string(out))
	if url == "" {
		return "", errors.New("pip is configured to use no index; configure packages.index")
	}
	return url, nil
}
