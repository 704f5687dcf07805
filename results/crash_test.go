package results

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/testhost"
)

// The test binary plays other processes: started with this in its environment,
// it does what the value says and ends.
const childEnv = "HCL_RESULTS_CHILD"

func TestMain(m *testing.M) {
	job := strings.Fields(os.Getenv(childEnv))
	if len(job) == 0 {
		os.Exit(testhost.Main(m))
	}
	children := map[string]func(ctx context.Context, dir string, args []string) error{
		"write": writeCells, "fill": fillDisk, "lock": holdLock, "journal": writeJournal, "look": readOnly,
	}
	// The folder may have blanks in its name.
	if err := children[job[0]](context.Background(), os.Getenv(childEnv+"_DIR"), job[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(t *testing.T, dir, job string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+job, childEnv+"_DIR="+dir)
	cmd.Stderr = t.Output()
	return cmd
}

// perCell is how many records a written cell has.
const perCell = 5

// crashRecords are records that say which cell they belong to and hardly shrink
// when compressed.
func crashRecords(cell string, n int) []load.Record {
	records := make([]load.Record, n)
	for i := range records {
		records[i] = load.Record{Seq: i, Error: cell, Gaps: make([]time.Duration, 50)}
		for j := range records[i].Gaps {
			records[i].Gaps[j] = time.Duration(rand.Int64())
		}
	}
	return records
}

// begin opens a store and begins a run.
func begin(ctx context.Context, dir, run string) (*Store, error) {
	s, err := openPlace(ctx, dir)
	if err == nil {
		err = s.BeginRun(ctx, testRun(run))
	}
	return s, err
}

// writeCells is a process that stores cells and says on its standard output
// which ones are done.
func writeCells(ctx context.Context, dir string, args []string) error {
	run := args[0]
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	s, err := begin(ctx, dir, run)
	if err != nil {
		return err
	}
	for i := range count {
		cell := testCell(run, fmt.Sprintf("%sc%d", run, i))
		if err := s.PutDeployment(ctx, testDeployment(run)); err != nil {
			return err
		}
		if err := s.PutCell(ctx, cell, crashRecords(cell.ID, perCell)); err != nil {
			return err
		}
		fmt.Println(cell.ID)
	}
	return s.Close()
}

// checkCells reports cells that are done and not in the store, and cells in the
// store that are not whole. It returns how many there are.
func checkCells(t *testing.T, s *Store, q Query, done []string) int {
	t.Helper()
	rows, err := s.Rows(t.Context(), q)
	check(t, err)
	stored := map[string]bool{}
	for _, r := range rows {
		stored[r.ID] = true
		records, err := s.Records(t.Context(), r.RunID, r.ID)
		if err != nil {
			t.Errorf("cell %s: %v", r.ID, err)
		} else if len(records) != perCell || records[perCell-1].Error != r.ID {
			t.Errorf("cell %s has %d records of another cell or another time", r.ID, len(records))
		}
	}
	for _, id := range done {
		if !stored[id] {
			t.Errorf("cell %s was done and is not in the store", id)
		}
	}
	return len(rows)
}

// TestKill: whenever a process dies that stores cells, the store opens, holds every
// cell that was done, and says what it dropped. Each run of the test has other moments.
func TestKill(t *testing.T) {
	t.Run("folder", func(t *testing.T) { testKill(t, t.TempDir(), 50) })
	t.Run("postgres", func(t *testing.T) { testKill(t, testhost.Database(t), 10) })
}

func testKill(t *testing.T, place string, kills int) {
	var all []string
	cut, files := 0, 0
	for i := range kills {
		run := fmt.Sprint("r", i)
		cmd := child(t, place, fmt.Sprintf("write %s 1000000", run))
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		lines := bufio.NewScanner(out)
		var done []string
		for range rand.IntN(4) {
			if !lines.Scan() {
				t.Fatal("the child ended by itself")
			}
			done = append(done, lines.Text())
		}
		// Storing a cell takes a few milliseconds; this reaches every moment of it,
		// and when no line was read, opening too.
		<-time.After(rand.N(15 * time.Millisecond))
		check(t, cmd.Process.Kill())
		for lines.Scan() {
			done = append(done, lines.Text())
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}

		s, err := openPlace(t.Context(), place)
		if err != nil {
			t.Fatalf("after kill %d: %v", i, err)
		}
		kept := checkCells(t, s, Query{Run: run}, done)
		dropped := s.Dropped()
		check(t, s.Close())
		if !s.Shared() {
			if left := orphans(t, place, run, kept); len(left) > 0 {
				t.Errorf("after kill %d there are still %v", i, left)
			}
		}
		begun := len(done) > 0
		for deadline := time.Now().Add(time.Minute); s.Shared() && begun && len(dropped) == 0 && time.Now().Before(deadline); {
			again := open(t, place) // the server has to see that the process is gone
			dropped = again.Dropped()
			check(t, again.Close())
		}
		switch {
		case len(dropped) > 1 || begun && len(dropped) == 0:
			t.Errorf("after kill %d: dropped %v; want one run", i, dropped)
		case len(dropped) == 1:
			cut++
			files += dropped[0].Files
			if dropped[0].Run != run || dropped[0].Cells != kept {
				t.Errorf("after kill %d: dropped %+v; want that %d cells of run %s are kept", i, dropped[0], kept, run)
			}
		}
		all = append(all, done...)
	}
	s := open(t, place)
	if again := s.Dropped(); len(again) > 0 {
		t.Errorf("it is said twice: %v", again)
	}
	checkCells(t, s, Query{}, all)
	t.Logf("%d cells survived %d kills, which cut off %d runs and left %d files half done", len(all), kills, cut, files)
}

// orphans are files of records of a run beyond those of its cells.
func orphans(t *testing.T, dir, run string, cells int) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{run + "-*", "." + run + "-*"} {
		found, err := filepath.Glob(filepath.Join(dir, "records", pattern))
		check(t, err)
		names = append(names, found...)
	}
	return names[min(cells, len(names)):]
}

func TestTwoProcesses(t *testing.T) { everywhere(t, testTwoProcesses) }

func testTwoProcesses(t *testing.T, dir string) {
	const each = 20
	var done []string
	var children []*exec.Cmd
	for _, run := range []string{"a", "b"} {
		cmd := child(t, dir, fmt.Sprintf("write %s %d", run, each))
		check(t, cmd.Start())
		children = append(children, cmd)
		for i := range each {
			done = append(done, fmt.Sprintf("%sc%d", run, i))
		}
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("child: %v", err)
		}
	}
	checkCells(t, open(t, dir), Query{}, done)
}

// holdLock is a process that takes the lock and keeps it until it is killed.
func holdLock(ctx context.Context, dir string, _ []string) error {
	s, err := openPlace(ctx, dir)
	if err != nil {
		return err
	}
	if _, err := s.Lock(ctx, "lab", "hcl apply lab/"); err != nil {
		return err
	}
	fmt.Println("locked")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func TestLockGoesWithItsProcess(t *testing.T) { everywhere(t, testLockGoesWithItsProcess) }

func testLockGoesWithItsProcess(t *testing.T, dir string) {
	cmd := child(t, dir, "lock")
	_, err := cmd.StdinPipe() // open until the child is gone
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("the child took no lock")
	}
	s := open(t, dir)
	_, err = s.Lock(t.Context(), "lab", "hcl apply other/")
	if want := fmt.Sprintf("(process %d", cmd.Process.Pid); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), want) {
		t.Errorf("Lock: %v; want ErrLocked with %q", err, want)
	}
	check(t, cmd.Process.Kill())
	cmd.Wait()
	unlock, err := s.Lock(t.Context(), "lab", "hcl apply other/")
	for deadline := time.Now().Add(time.Minute); s.Shared() && errors.Is(err, ErrLocked) && time.Now().Before(deadline); {
		unlock, err = s.Lock(t.Context(), "lab", "hcl apply other/") // the server has to see that it is gone
	}
	check(t, err)
	check(t, unlock())
}

// fillDisk is a process that stores cells on a file system of its own, which
// goes with it, until that is full.
func fillDisk(ctx context.Context, dir string, _ []string) error {
	if err := syscall.Mount("hcl-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	s, err := begin(ctx, dir, "r")
	if err != nil {
		return err
	}
	put := func(id string, n int) error { return s.PutCell(ctx, testCell("r", id), crashRecords(id, n)) }
	whole := func(want int) error {
		rows, err := s.Rows(ctx, Query{})
		if err != nil {
			return err
		}
		files, err := os.ReadDir(filepath.Join(dir, "records"))
		if err != nil {
			return err
		}
		if len(rows) != want || len(files) != want {
			return fmt.Errorf("%d rows and %d files; want %d", len(rows), len(files), want)
		}
		for _, r := range rows {
			if _, err := s.Records(ctx, "r", r.ID); err != nil {
				return err
			}
		}
		return nil
	}

	stored := 0
	for ; stored < 3; stored++ {
		if err := put(fmt.Sprint("c", stored), 100); err != nil {
			return err
		}
	}
	// More than there is room for, so that the records find out first.
	if err = put("big", 5000); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left on device") {
		return fmt.Errorf("after %d cells: %v; want one that says that the disk is full", stored, err)
	}
	if err := whole(stored); err != nil {
		return fmt.Errorf("records found the disk full: %w", err)
	}

	// A file system that is full to the last byte: the database finds out.
	filler := fillUp(dir)
	if err = put("c3", 0); err == nil || !strings.Contains(err.Error(), "full") {
		return fmt.Errorf("the database found the disk full: %v; want an error that says so", err)
	}
	if err := whole(stored); err != nil {
		return fmt.Errorf("the database found the disk full: %w", err)
	}

	// With room again, it goes on.
	if err := os.Remove(filler); err != nil {
		return err
	}
	if err := put("c3", 10); err != nil {
		return err
	}
	return whole(stored + 1)
}

// fillUp fills a file system to the last byte, and returns the file that does.
func fillUp(dir string) (path string) {
	path = filepath.Join(dir, "filler")
	filler, err := os.Create(path)
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	filler.Close()
	return path
}

// mounting is a child that may mount, which goes with it.
func mounting(t *testing.T, job string) *exec.Cmd {
	t.Helper()
	cmd := child(t, t.TempDir(), job)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

func TestDiskFull(t *testing.T) { check(t, mounting(t, "fill").Run()) }
