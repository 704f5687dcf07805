package load

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func approx(tolerance float64) cmp.Option { return cmpopts.EquateApprox(tolerance, tolerance) }
