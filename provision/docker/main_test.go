package docker

import (
	"os"
	"testing"

	"hclbench/testhost"
)

func TestMain(m *testing.M) { os.Exit(testhost.Main(m)) }
