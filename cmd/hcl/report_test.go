package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/hcl"
	"hclbench/report"
)

// TestReportNames holds the names that a report block may use to those that results
// have: neither room knows the other.
func TestReportNames(t *testing.T) {
	sorted := func(names ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(names...))) }
	if diff := cmp.Diff(sorted(report.MetricNames()), sorted(hcl.MetricNames())); diff != "" {
		t.Errorf("metrics (-report +language):\n%s", diff)
	}
	if diff := cmp.Diff(sorted(report.ColumnNames()), sorted(hcl.MetricNames(), hcl.ColumnNames())); diff != "" {
		t.Errorf("columns (-report +language):\n%s", diff)
	}
	if diff := cmp.Diff(
		[]string{report.AutomaticBenchmarks, report.AutomaticPrefixCache, report.AutomaticDistributions, report.AutomaticTimeLines},
		[]string{hcl.AutomaticBenchmarks, hcl.AutomaticPrefixCache, hcl.AutomaticDistributions, hcl.AutomaticTimeLines}); diff != "" {
		t.Errorf("automatic charts (-report +language):\n%s", diff)
	}
}
