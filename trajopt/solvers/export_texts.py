"""Files that `trajopt.solvers.export` writes beside a library: examples, and what its README says of solves.

In the texts NAME stands for the name of the library, UPPER for that in capitals.
"""

EXAMPLE = """\
/* A solve, a cycle of predictive control, and a solve from its plan.

       cc example.c -I. libNAME.a -lm -o example */
#include <inttypes.h>
#include <stdio.h>

#include "NAME.h"

static void show(NAME_t *self) {
    printf("status %" PRId64 " after %" PRId64 " iterations, cost %.6g, largest violation %.1e\\n", *NAME_status(self),
           *NAME_iterations(self), *NAME_cost(self), *NAME_violation(self));
}

int main(void) {
    NAME_t *self = NAME_create();
    if (self == NULL || NAME_solve(self))
        return 1;
    show(self);
    for (int i = 0; i < UPPER_us_DIM1; i++)
        printf("%g ", NAME_us(self)[i]); /* the first control */
    printf("\\n");

    /* A knot later, from the state that was planned: the plan moves up, and an iteration improves it. */
    for (int i = 0; i < UPPER_x0_SIZE; i++)
        NAME_x0(self)[i] = NAME_xs(self)[UPPER_xs_DIM1 + i];
    if (NAME_cycle(self))
        return 1;
    printf("a cycle to cost %.6g\\n", *NAME_cost(self));

    /* To convergence from there. */
    *NAME_start(self) = UPPER_FROM_PLAN;
    if (NAME_solve(self))
        return 1;
    show(self);
    NAME_free(self);
    return 0;
}
"""

EXAMPLE_CPP = """\
// The solver as an object of C++, which frees what it owns.
//
//     c++ example.cpp -I. libNAME.a -lm -o example
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>

#include "NAME.h"

class Solver {
public:
    Solver() : self_(NAME_create(), NAME_free) {
        if (!self_)
            throw std::bad_alloc();
    }

    double *x0() { return NAME_x0(self_.get()); }
    const double *control(int knot) const { return NAME_us(self_.get()) + knot * UPPER_us_DIM1; }
    double cost() const { return *NAME_cost(self_.get()); }
    bool converged() const { return *NAME_status(self_.get()) == UPPER_CONVERGED; }

    void solve() {
        if (NAME_solve(self_.get()))
            throw std::runtime_error("NAME_solve");
    }

private:
    std::unique_ptr<NAME_t, void (*)(NAME_t *)> self_;
};

int main() {
    Solver solver;
    solver.solve();
    std::printf("%s, cost %g, first control %g\\n", solver.converged() ? "converged" : "not converged", solver.cost(),
                solver.control(0)[0]);
}
"""

ABOUT_LOOP = """\
Predictive control at 1 kHz, with the functions of a hardware interface as in ros2_control: read, update, write.

   Every millisecond an iteration improves the plan from the state that was read, and its first control is written;
   every KNOT milliseconds the plan moves up by a knot.  Where an iteration takes longer than a millisecond, make cycles
   alone, or let a thread of its own make them."""

OF_LOOP = """\
enum { NX = UPPER_x0_SIZE, NU = UPPER_us_DIM1, KNOT = MILLISECONDS };

/* The first plan, before the robot moves. */
static int start(NAME_t *self) {
    return NAME_solve(self);
}

/* A robot's drivers go here.  This robot does what the plan says: it is a millisecond on the way to the next knot. */
static void read_state(NAME_t *self, double *x) {
    const double *xs = NAME_xs(self);
    for (int i = 0; i < NX; i++)
        x[i] = xs[i] + (xs[NX + i] - xs[i]) / KNOT;
}

/* Where there is no new plan, as from numbers that are not finite, the last one goes on. */
static long without = 0;

static int update(NAME_t *self, long cycle, const double *x, double *u) {
    int moves_up = cycle % KNOT == 0 && cycle > 0;
    memcpy(NAME_x0(self), x, sizeof(double) * NX);
    *NAME_start(self) = UPPER_FROM_PLAN;
    if (moves_up ? NAME_cycle(self) : NAME_begin(self) || NAME_step(self))
        return 1;
    without += *NAME_status(self) > UPPER_MAX_ITERATIONS;
    memcpy(u, NAME_us(self), sizeof(double) * NU);
    return 0;
}

static void report(NAME_t *self) {
    printf(", without a new plan in %ld of them, cost %g\\n", without, *NAME_cost(self));
}
"""

README = """
## Solves

- `NAME_begin` takes parameters over, and starts a solve from `x0`: cost, derivatives, first multipliers;
- `NAME_step` makes one iteration;
- `NAME_solve` begins, then iterates until there is a status;
- `NAME_cycle` is a cycle of predictive control from `x0`, a knot after the last one: it takes parameters over, moves
  the plan of the last solve or cycle up by a knot, and makes one iteration, as `Solution.shifted` and a solve with
  `max_iterations=1` do.

All return 0.  What they read:

- `x0`: the initial state;
- `us`, `xs`, `start`: where a solve begins.  UPPER_FROM_CONTROLS: `us`, rolled out; UPPER_FROM_STATES: `xs` and `us`,
  with gaps between states and dynamics; UPPER_FROM_PLAN: `us`, rolled out with the gains `K` about `xs`, and the
  multipliers of the last solve or cycle;
- `tolerance`, `max_iterations`: options of the next iterations;
- the parameters below.

Begin a solve, or make a cycle, after a change of any of these but the options.  Values other than `x0` are not checked:
limits have to be in order, and weights not negative.  What they write:

- `xs`, `us`: the iterate;
- `K`: gains, u = us + K (x - xs): of a solve that has converged those of `Solution.K`, else of the last sweep;
- `status` of the last solve or cycle: MEANINGS.  A cycle that has made a step ends with 2; with 1 its plan is optimal,
  with 3 no step lowers the cost.  From 5 on something is wrong, and `us` is still a plan: that of before, moved up by
  a knot in a cycle.  With 7 that was not finite, and the first controls from `x0` are in its place, with gaps and
  without gains.  With 8 `x0` was not finite, or a quaternion in it not of unit length within 1e-6; a cycle has
  replaced it by the state that was planned;
- `iterations` of the last solve or cycle, and in how many of these Python would have done more (below), `asked`;
- `cost`, without terms of constraints; `gradient_norm`; `violation`, the largest one in the constraints' own units,
  of limits of controls, too, where these are rows (`control_limits="augmented_lagrangian"`), while `us` is within all
  others; `gap`, the largest one between states and dynamics.ROWS

## Parameters

Values in the units of the problem, which `NAME_begin`, `NAME_solve` and `NAME_cycle` take over; of functions of time
with a row for each knot.

| array | of the problem |
|---|---|
PARAMETERS

Terms that had one value, and that are computed together, share an array with the names of all: problems whose values
differ have an array for each.  FIXED

## Times

On the machine where this was written, in one thread (a library for `native` may have instructions that other processors
have not; `x86-64-v3` runs on most): a solve from the first start (ITERATIONS) SOLVE ms, a cycle CYCLE ms.

## Where Python would do more

In Python some iterations are interrupted for what is rare.  The library goes on without, and counts these iterations in
`asked`; while it is 0 the iterates from the first start have the same bits as those of `PreparedSolver.solve`, except
for free durations, whose last bits may differ.  A cycle has those of a real-time iteration of Python from the same
plan, multipliers and penalty, which after a solve with `asked` above 0 are others than Python's.

- a line search with a short step: Python tries other directions, the library takes the step;
- a line search without a step: both try again with a larger mu, or end;
- an exact model that is not positive definite under constraints, also that of the gains to deploy: Python takes its
  positive part, the library the Gauss-Newton model;
- steps that lead nowhere for long under constraints: Python smooths inequalities, and searches for feasible
  trajectories; the library goes on;
- controls that lead away: Python starts at rest instead; the library does so only where it was made with such a start
  (`start` and `xs` say so).

Ends are final: saddles are not left, and no second solve is made.  Units of rows of constraints and of mu are those at
the start that the library was made with.
"""

OF_ROWS = """
- `multipliers` of the plan's rows of constraints, knot by knot, and by constraints there.

An option of cycles, to be written like `tolerance`: `max_sweeps`, the largest number of backward sweeps after the first
one with which a cycle finds which constraints are active; infinite for no bound."""
