package measure

import (
	"cmp"
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// clock is a sleeper that wakes by a timer of the kernel's own. Timers of the Go
// runtime end up to a millisecond late in a process that does nothing else, because
// it waits for files in whole milliseconds; a timer that is a file ends that wait.
type clock struct {
	file   *os.File
	raw    syscall.RawConn
	forget func() bool // the context
}

// newClock is a clock, or a timer where the kernel has none for it. Until it is
// stopped, the end of ctx ends its waits.
func newClock(ctx context.Context) sleeper {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return &timer{}
	}
	c := &clock{file: os.NewFile(uintptr(fd), "timer")}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		c.file.Close()
		return &timer{}
	}
	c.forget = context.AfterFunc(ctx, func() { c.file.SetReadDeadline(time.Unix(1, 0)) })
	return c
}

func (c *clock) stop() {
	c.forget()
	c.file.Close()
}

func (c *clock) until(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	var err error
	e := c.raw.Control(func(fd uintptr) {
		err = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	})
	if err = cmp.Or(e, err); err == nil {
		var ended [8]byte // how often
		_, err = c.file.Read(ended[:])
	}
	if err != nil && ctx.Err() == nil { // there is no reason for it, and waiting is what matters
		var own timer
		defer own.stop()
		return own.until(ctx, t)
	}
	return ctx.Err() == nil
}
