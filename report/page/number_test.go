package page

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/reporttest"
	"hclbench/testhost"
)

// TestNumbersAlike: the page's script writes numbers as everything else does.
func TestNumbersAlike(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("data.js")
	if err != nil {
		t.Fatal(err)
	}
	values := []float64{0, 0.0004, 0.0922, 1, 9.994, 9.995, 99.95, 100, 999.4, 1038, 4999, 5000, 12_345, 1_272_943}
	changes := []float64{-0.995, -0.9, -0.899, -0.0995, -0.05, -0.0004, 0, 0.0004, 0.0995, 0.12, 0.999, 1, 1.001, 83}
	type texts struct{ Text, Amount, Change, Unit []string }
	var want, got texts
	for _, v := range values {
		want.Text, want.Amount = append(want.Text, number.Text(v)), append(want.Amount, number.Amount(v, "ms"))
		unit, _ := number.Unit("ms", v, 12_000)
		want.Unit = append(want.Unit, unit)
	}
	for _, c := range changes {
		want.Change = append(want.Change, number.Change(c))
	}
	data, err := json.Marshal(newData(nil, nil, nil, new(figure.About).Series(nil), nil, new(figure.About)))
	if err != nil {
		t.Fatal(err)
	}
	page := `<script type="application/json" id="data">` + string(data) + `</script><script>` + string(script) +
		`const say = (values, changes) => ({ Text: values.map(text), Amount: values.map(v => amount(v, "ms")),
			Change: changes.map(change), Unit: values.map(v => unitOf("ms", v, 12000)[0]) });</script>`
	path := filepath.Join(t.TempDir(), "numbers.html")
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	tab := testhost.NewBrowser(t).Open(t, "file://"+path, testhost.View{Width: 400, Height: 400})
	call, err := json.Marshal([2][]float64{values, changes})
	if err != nil {
		t.Fatal(err)
	}
	tab.Eval(t, `say(...`+string(call)+`)`, &got)
	reporttest.Check(t, "numbers", want, got)
}
