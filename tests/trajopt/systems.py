"""Small systems in plain numpy with derivatives written out by hand, for tests of the solvers alone."""

import numpy as np


class NumpySystem:
    """Rollouts, steps and linear algebra shared by the systems below; subclasses give f and its derivatives."""

    nx: int
    ndx: int
    nu: int

    def __init__(self, dt):
        self.dt = dt

    def integrate(self, x, dx):
        return np.asarray(x) + dx

    def difference(self, x0, x1):
        return np.asarray(x1) - x0

    def rollout(self, x0, us):
        xs = np.empty((len(us) + 1, self.nx))
        xs[0] = x0
        for t, u in enumerate(us):
            xs[t + 1] = self.step(xs[t], u)
        return xs

    def closed_loop_rollout(self, x0, xs, us, k, K, alphas):
        A, N = len(alphas), len(us)
        xs_new, us_new = np.empty((N + 1, A, self.nx)), np.empty((N, A, self.nu))
        xs_new[0] = x0
        for t in range(N):
            dx = self.difference(np.broadcast_to(xs[t], (A, self.nx)), xs_new[t])
            us_new[t] = us[t] + alphas[:, None] * k[t] + dx @ K[t].T
            xs_new[t + 1] = self.step(xs_new[t], us_new[t])
        return xs_new.swapaxes(0, 1), us_new.swapaxes(0, 1)  # strided on purpose

    def hessian_products(self, xs, us, lam):
        fxx, fux, fuu = self.hessians(xs, us)
        return tuple(np.einsum("ti,tijk->tjk", lam, f) for f in (fxx, fux, fuu))

    def zero_hessians(self, N):
        n, m = self.ndx, self.nu
        return np.zeros((N, n, n, n)), np.zeros((N, n, m, n)), np.zeros((N, n, m, m))


class LinearSystem(NumpySystem):
    """x+ = A x + B u."""

    def __init__(self, A, B, dt=1.0):
        super().__init__(dt)
        self.A, self.B = np.asarray(A, float), np.asarray(B, float)
        self.nx = self.ndx = self.A.shape[0]
        self.nu = self.B.shape[1]

    def step(self, x, u):
        return x @ self.A.T + u @ self.B.T

    def linearize(self, xs, us):
        N = len(us)
        return np.tile(self.A, (N, 1, 1)), np.tile(self.B, (N, 1, 1))

    def hessians(self, xs, us):
        return self.zero_hessians(len(us))


class MechanicalSystem(NumpySystem):
    """Semi-implicit Euler, v+ = v + h a(q, v, u), q+ = q + h v+; subclasses give a, da, d2a in z = (x, u)."""

    semi_implicit = True

    def acceleration(self, z):
        """a (K, n), da (K, n, nz), d2a (K, n, nz, nz) at z (K, nz)."""
        raise NotImplementedError

    @property
    def nq(self):
        return self.nx // 2

    def step(self, x, u):
        n = self.nq
        z = np.concatenate([np.atleast_2d(x), np.atleast_2d(u)], axis=1)
        v = z[:, n : 2 * n] + self.dt * self.acceleration(z)[0]
        x_next = np.concatenate([z[:, :n] + self.dt * v, v], axis=1)
        return x_next if np.ndim(x) == 2 else x_next[0]

    def _derivatives(self, xs, us):
        return self.acceleration(np.concatenate([xs[: len(us)], us], axis=1))

    def linearize(self, xs, us):
        n, h = self.nq, self.dt
        J = h * self._derivatives(xs, us)[1]
        J[:, :, n : 2 * n] += np.eye(n)
        J = np.concatenate([h * J, J], axis=1)
        J[:, :n, :n] += np.eye(n)
        return J[:, :, : 2 * n].copy(), J[:, :, 2 * n :].copy()

    def hessians(self, xs, us):
        n, h = self.nq, self.dt
        H = h * self._derivatives(xs, us)[2]
        H = np.concatenate([h * H, H], axis=1)
        return H[:, :, : 2 * n, : 2 * n].copy(), H[:, :, 2 * n :, : 2 * n].copy(), H[:, :, 2 * n :, 2 * n :].copy()


class Pendulum(MechanicalSystem):
    """Point mass on a rod, angle from hanging: m l^2 a = u - m g l sin q - b v."""

    nx, ndx, nu = 2, 2, 1

    def __init__(self, dt=0.05, mass=1.0, length=1.0, damping=0.1, gravity=9.81):
        super().__init__(dt)
        self.inertia, self.weight, self.damping = mass * length**2, mass * gravity * length, damping
        self.length = length

    def acceleration(self, z):
        q, v, u = z.T
        K = len(q)
        da, d2a = np.zeros((K, 1, 3)), np.zeros((K, 1, 3, 3))
        da[:, 0] = np.stack([-self.weight * np.cos(q), np.full(K, -self.damping), np.ones(K)], axis=1)
        d2a[:, 0, 0, 0] = self.weight * np.sin(q)
        a = u - self.weight * np.sin(q) - self.damping * v
        return a[:, None] / self.inertia, da / self.inertia, d2a / self.inertia

    def skeleton(self, xs):
        q = np.asarray(xs)[:, 0]
        tip = self.length * np.stack([np.sin(q), 0 * q, -np.cos(q)], axis=1)
        return np.stack([np.zeros_like(tip), tip], axis=1)[:, None]


class CartPole(MechanicalSystem):
    """Cart with a pole, angle from hanging, state [position, angle, their rates], force on the cart.

    Both accelerations are quotients N/D with D = M + m sin^2; quotients are differentiated by f_i = (N_i - f D_i)/D and
    f_ij = (N_ij - f_i D_j - f_j D_i - f D_ij)/D in the variables (angle, rate, force).
    """

    nx, ndx, nu = 4, 4, 1

    def __init__(self, dt=0.05, cart=1.0, pole=0.3, length=0.5, gravity=9.81):
        super().__init__(dt)
        self.parameters = cart, pole, length, gravity

    def acceleration(self, z):
        M, m, l, g = self.parameters
        q, w, u = z[:, 1], z[:, 3], z[:, 4]
        s, c = np.sin(q), np.cos(q)
        zero = 0 * q

        def symmetric(qq, qw, ww, qu):
            return np.array([[qq, qw, qu], [qw, ww, zero], [qu, zero, zero]]).transpose(2, 0, 1)

        D = M + m * s**2
        D1 = np.stack([2 * m * s * c, zero, zero], axis=1)
        D2 = symmetric(2 * m * (c**2 - s**2), zero, zero, zero)
        # cart: u + m s (l w^2 + g c)
        N = u + m * s * (l * w**2 + g * c)
        N1 = np.stack([m * c * l * w**2 + m * g * (c**2 - s**2), 2 * m * s * l * w, zero + 1], axis=1)
        N2 = symmetric(-m * s * l * w**2 - 4 * m * g * s * c, 2 * m * c * l * w, 2 * m * s * l, zero)
        # pole: -(u c + m l w^2 c s + (M + m) g s) / l
        P = -(u * c + m * l * w**2 * c * s + (M + m) * g * s) / l
        P1 = -np.stack([-u * s + m * l * w**2 * (c**2 - s**2) + (M + m) * g * c, 2 * m * l * w * c * s, c], axis=1) / l
        P2 = (
            -symmetric(
                -u * c - 4 * m * l * w**2 * c * s - (M + m) * g * s,
                2 * m * l * w * (c**2 - s**2),
                2 * m * l * c * s,
                -s,
            )
            / l
        )
        a, da, d2a = np.zeros((len(q), 2)), np.zeros((len(q), 2, 5)), np.zeros((len(q), 2, 5, 5))
        columns = np.array([1, 3, 4])
        for i, (n0, n1, n2) in enumerate(((N, N1, N2), (P, P1, P2))):
            f = n0 / D
            f1 = (n1 - f[:, None] * D1) / D[:, None]
            cross = f1[:, :, None] * D1[:, None, :]
            f2 = (n2 - cross - cross.swapaxes(1, 2) - f[:, None, None] * D2) / D[:, None, None]
            a[:, i] = f
            da[:, i, columns] = f1
            d2a[:, i, columns[:, None], columns] = f2
        return a, da, d2a


class CirclePendulum(Pendulum):
    """The same pendulum with its angle stored as a unit vector (cos, sin): nx = 3, ndx = 2."""

    nx = 3
    nq = 1
    euclidean = False

    def chart(self, x):
        x = np.asarray(x)
        return np.stack([np.arctan2(x[..., 1], x[..., 0]), x[..., 2]], axis=-1)

    def embed(self, y):
        return np.stack([np.cos(y[..., 0]), np.sin(y[..., 0]), y[..., 1]], axis=-1)

    def integrate(self, x, dx):
        return self.embed(self.chart(x) + dx)

    def difference(self, x0, x1):
        d = self.chart(x1) - self.chart(x0)
        d[..., 0] = np.remainder(d[..., 0] + np.pi, 2 * np.pi) - np.pi
        return d

    def step(self, x, u):
        return self.embed(super().step(self.chart(x), u))

    def _derivatives(self, xs, us):
        return self.acceleration(np.concatenate([self.chart(xs[: len(us)]), us], axis=1))

    def difference_expansion(self, x_ref, xs, mu):
        return np.tile(np.eye(2), (len(xs), 1, 1)), np.zeros((len(xs), 2, 2))


class TipResidual:
    """Pendulum tip minus a target, and the power u v: a residual with curvature in x and across x and u."""

    nr = 3

    def __init__(self, target=(0.0, 1.0)):
        self.target = np.asarray(target, float)

    def evaluate(self, xs, us):
        q, v = xs[:, 0], xs[:, 1]
        power = 0 * q if us is None else us[:, 0] * v
        return np.stack([np.sin(q) - self.target[0], -np.cos(q) - self.target[1], power], axis=1)

    def jacobians(self, xs, us):
        q, v = xs[:, 0], xs[:, 1]
        rx = np.zeros((len(q), 3, 2))
        rx[:, 0, 0], rx[:, 1, 0] = np.cos(q), np.sin(q)
        if us is None:
            return rx, None
        rx[:, 2, 1] = us[:, 0]
        ru = np.zeros((len(q), 3, 1))
        ru[:, 2, 0] = v
        return rx, ru

    def hessian_products(self, xs, us, mu):
        q = xs[:, 0]
        Hxx = np.zeros((len(q), 2, 2))
        Hxx[:, 0, 0] = -mu[:, 0] * np.sin(q) + mu[:, 1] * np.cos(q)
        if us is None:
            return Hxx, None, None
        Hux = np.zeros((len(q), 1, 2))
        Hux[:, 0, 1] = mu[:, 2]
        return Hxx, Hux, None


FEET = np.array([[0.3, 0.2, 0.0], [-0.3, -0.2, 0.0]])


class Walker(LinearSystem):
    """A point at (x, y, 1) over two feet that follow it; the first carries 20 N in the first half, the second after.

    The middle knot takes no time.
    """

    def __init__(self, horizon=10):
        super().__init__(np.eye(2), 0.1 * np.eye(2), dt=0.1)
        self.durations = np.full(horizon, 0.1)
        self.durations[horizon // 2] = 0.0

    def center_of_mass(self, xs):
        return np.concatenate([xs, np.ones((len(xs), 1))], axis=1)

    def contact_points(self, xs):
        return self.center_of_mass(xs)[:, None] - [0.0, 0.0, 1.0] + FEET

    def skeleton(self, xs):
        feet = self.contact_points(xs)
        return np.stack([np.broadcast_to(self.center_of_mass(xs)[:, None], feet.shape), feet], axis=2)

    def contact_forces(self, xs, us):
        forces, half = np.zeros((len(us), 2, 3)), len(us) // 2
        forces[:half, 0], forces[half + 1 :, 1] = [0.0, 3.0, 20.0], [0.0, -3.0, 20.0]
        forces[half] = 1e6  # an impulse
        return forces
