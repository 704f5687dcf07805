package hcl

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"hclbench/hcl/lang"
	"hclbench/provision"
)

func labBlock() *lang.BlockType {
	return &lang.BlockType{
		Name: "lab", Labels: []lang.Label{{What: "name", Form: lang.DottedName}}, Once: true,
		Args: []lang.Argument{
			lang.Arg("lease", leaseTime, func(l *Lab, d time.Duration) { l.Lease = d }),
			lang.Arg("max_duration", lang.Duration, func(l *Lab, d time.Duration) { l.MaxDuration = d }),
			lang.Arg("max_money", lang.Number(0.01, 1e9), func(l *Lab, usd float64) { l.MaxMoney = usd }),
			lang.Description(func(l *Lab, s string) { l.Description = s }),
		},
		Blocks: []lang.Nested{{Type: noticeBlock(), Many: true}},
		Check:  lang.Checks(checkLab),
	}
}

func noticeBlock() *lang.BlockType {
	return &lang.BlockType{
		Name: "notice",
		Args: []lang.Argument{
			lang.Arg("on", lang.SomeOf(NoticeEnd, NoticeFailure, NoticeIdle), func(n *Notice, on []string) { n.On = on }),
			lang.Arg("command", lang.Words, func(n *Notice, argv []provision.Text) { n.Command = argv }),
			lang.Arg("url", lang.SecretText, func(n *Notice, s provision.Text) { n.URL = s }),
			lang.Arg("idle", lang.Duration, func(n *Notice, d time.Duration) { n.Idle = d }),
		},
		Check: lang.Checks(checkNotice),
	}
}

// readLab reads the lab block, or says what holds without one. money is its max_money, to be held against the hosts.
func readLab(r *lang.Reader) (lab Lab, money lang.Setting) {
	lab = Lab{Name: dirName(r.Source.Dir), Lease: DefaultLease}
	for _, b := range r.Blocks("lab") {
		lab.Name = b.Label
		money = b.Read(&lab, nil).Arg("max_money")
		for _, n := range b.Inner("notice") {
			notice := Notice{On: []string{NoticeEnd, NoticeFailure, NoticeIdle}, Idle: DefaultIdle}
			n.Read(&notice, nil)
			lab.Notices = append(lab.Notices, notice)
		}
	}
	return lab, money
}

var notInLabName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// dirName is the name of a lab that has none of its own: its directory's.
func dirName(path string) string {
	dir, err := filepath.Abs(path)
	if err != nil {
		dir = path
	}
	name := notInLabName.ReplaceAllString(filepath.Base(dir), "-")
	if !lang.DottedName.Allows(name) {
		return "lab"
	}
	return name
}

const tooDear = "Its rented hosts can cost $%.2f until their hard ends (%s), and max_money is $%.2f. Shorten a ttl, lower a max_price, or raise it."

// checkMoney: what is rented cannot cost more than the lab has, even if everything goes wrong.
func checkMoney(r *lang.Reader, money lang.Setting, c *Config) {
	var most float64
	var each []string
	for _, h := range c.Hosts {
		if h.Rent != nil {
			most += h.Rent.MostMoney()
			each = append(each, fmt.Sprintf("%s: %s at $%.2f an hour", h.Name, h.Rent.TTL, h.Rent.MaxPrice))
		}
	}
	if money.IsValid() && most > c.Lab.MaxMoney {
		r.Fail(money.At, "Too little money", tooDear, most, strings.Join(each, "; "), c.Lab.MaxMoney)
	}
}

// shortLease is a lease that an ordinary hiccup of a network outlasts.
const shortLease = 10 * time.Second

// checkLab is about leases that end runs too early, or for nothing.
func checkLab(b *lang.Block, lab *Lab) {
	if x := b.Arg("lease"); x.IsValid() && lab.Lease < shortLease {
		b.Warn(x.At, "Short lease",
			"When the network fails for %s, a host with this lease cleans itself in the middle of a measurement.", lab.Lease)
	}
	if x := b.Arg("max_duration"); x.IsValid() && lab.MaxDuration < lab.Lease {
		b.Warn(x.At, "Shorter than the lease", "Nothing of the lab lives longer than %s, which is less than its lease "+
			"of %s. Longer runs are cut off.", lab.MaxDuration, lab.Lease)
	}
}

const cutOff = "Nothing of the lab lives longer than %s, and a cell of benchmark %q alone takes %s: it would be cut off. " +
	"Allow more time, or measure for less."

// checkLengths: no cell is longer than all of the lab may be.
func checkLengths(r *lang.Reader, c *Config) {
	for _, b := range r.Blocks("lab") {
		if c.Lab.MaxDuration == 0 {
			return
		}
		for _, of := range c.Benchmarks {
			for _, x := range of.Cells {
				if takes := x.Workload.Takes(); takes > c.Lab.MaxDuration {
					r.Fail(b.Written("max_duration"), "Too short for a cell", cutOff, c.Lab.MaxDuration, of.Name, takes)
				}
			}
		}
	}
}

func checkNotice(b *lang.Block, n *Notice) {
	command, address := b.Arg("command"), b.Arg("url")
	if !command.IsSet() && !address.IsSet() {
		b.Fail(b.Header.Lacking(""), "Nobody to tell",
			`A notice block needs url = "https://…" or command = ["program", …]. Write one, or remove the block.`)
	}
	switch {
	case !command.IsValid():
	case len(n.Command) == 0:
		b.Fail(command.At, "Wrong value",
			`"command" is empty. Write the program and its arguments, such as ["notify-send", "hcl"].`)
	default:
		checkProgram(b, command.At, n.Command[0].Reveal())
	}
	if address.IsValid() {
		u, err := url.Parse(n.URL.Reveal())
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			b.Fail(address.At, "Wrong value", `"url" must be an address such as "https://hooks.example.com/T0001".`)
		}
	}
}

// checkProgram warns of a program that is not there; without a PATH, nothing is known.
func checkProgram(b *lang.Block, at lang.Place, name string) {
	search, _ := b.Vars.Lookup("PATH")
	places := filepath.SplitList(search)
	if strings.ContainsRune(name, filepath.Separator) {
		places = []string{""}
	}
	for _, dir := range places {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return
		}
	}
	if len(places) > 0 {
		b.Warn(at, "Program not found",
			"This machine has no program %q. That is fine only if hcl apply will run on another one.", name)
	}
}

// NameOf is the lab's name as its text says it: the label of the lab block, else the
// directory's name. Nothing is evaluated, so it needs no variables. An error when a
// file does not parse and none of the others has a lab block: the name may stand in
// what was lost.
func NameOf(src *lang.Source) (string, error) {
	name, err := src.LabelOf(labBlock())
	if err != nil {
		return "", fmt.Errorf("read the lab's name: %w; hcl validate shows why", err)
	}
	return cmp.Or(name, dirName(src.Dir)), nil
}
