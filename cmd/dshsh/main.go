// Command dshsh is an agent shell that its users script while it runs.
package main

import (
	"os"

	"dshsh/cmd/dshsh/internal/app"
)

func main() { os.Exit(app.Main(app.OS())) }
