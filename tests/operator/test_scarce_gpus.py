"""Whole rollouts of a service that has fewer GPUs than pods: one that serves goes at a time, and it comes to an end.

What Kubernetes' own controllers do is done over here in small (pkg/controller/deployment/rolling.go).
"""

import copy
import datetime
from dataclasses import dataclass, field

import pytest

from gptservice_operator import fate
from gptservice_operator.marks import Marks
from tests.operator.builders import Body
from tests.operator.test_fate import GAVE_UP, NEW, NOW, OLD, at, case, deployment, pod, served, unplaced

LONG_AGO = 600
MANY = 100
HOPELESS = 5000
"""Seconds after which a pod that an old one went for has waited for too long."""


@dataclass
class Pods:
    """Those of a ReplicaSet."""

    key: str
    waiting: int = 0
    """For a node."""
    loading: int = 0
    serving: int = 0
    crash: bool = False

    @property
    def size(self) -> int:
        return self.waiting + self.placed

    @property
    def placed(self) -> int:
        return self.loading + self.serving

    def take(self, count: int) -> int:
        """Take pods away, the least useful first; return how many had a node."""
        before = self.placed
        for _ in range(count):
            part = next(name for name in ("waiting", "loading", "serving") if getattr(self, name))
            setattr(self, part, getattr(self, part) - 1)
        return before - self.placed

    def bodies(self) -> list[Body]:
        trouble = GAVE_UP if self.crash else None
        return [
            *(unplaced(LONG_AGO, name=f"{self.key}-w{n}", key=self.key) for n in range(self.waiting)),
            *(pod(f"{self.key}-l{n}", self.key, containers=trouble) for n in range(self.loading)),
            *(served(f"{self.key}-s{n}", self.key) for n in range(self.serving)),
        ]


@dataclass
class World:
    """A service amid a rollout, on so many GPUs."""

    wanted: int
    gpus: int
    new: Pods = field(default_factory=lambda: Pods(NEW))
    old: Pods = field(init=False)
    draining: int = 0
    """Pods on their way out, which hold their GPUs yet."""
    marks: Marks = field(default_factory=Marks)
    fewest: int = MANY
    """That served at any time."""
    most_draining: int = 0
    late: float = 0
    """Seconds that have passed."""

    def __post_init__(self) -> None:
        served_by = min(self.gpus, self.wanted)
        self.old, self.fewest = Pods(OLD, self.wanted - served_by, serving=served_by), served_by

    @property
    def is_back(self) -> bool:
        return self.marks.failed is not None

    @property
    def size(self) -> int:
        return self.old.size + self.new.size

    @property
    def serving(self) -> int:
        return self.old.serving + self.new.serving

    def now(self) -> datetime.datetime:
        return NOW + datetime.timedelta(seconds=self.late)

    def bounds(self) -> tuple[int, int]:
        """Have the operator look; return the surge and how many may be unavailable."""
        to, key = (self.old, OLD) if self.is_back else (self.new, NEW)
        live = deployment(key, self.wanted, updatedReplicas=to.size, readyReplicas=self.serving)
        live["status"]["replicas"] = self.size
        leaving = [pod(f"d{n}", OLD, ready=True, deletionTimestamp=at(-30 - self.late)) for n in range(self.draining)]
        pods = [*self.old.bodies(), *self.new.bodies(), *leaving]
        found = fate.judge(case(*pods, marks=self.marks, deployment=live, replicas=self.wanted), self.now())
        self.marks = found.marks
        return (0, found.max_unavailable(self.wanted)) if found.takes_old_first else (1, 0)

    def roll(self, surge: int, unavailable: int) -> None:
        """Do what the Deployment's controller does in one go."""
        to, off = (self.old, self.new) if self.is_back else (self.new, self.old)
        more = min(self.wanted - to.size, self.wanted + surge - self.size)
        if more > 0:
            to.waiting += more
            return
        floor = self.wanted - unavailable
        may_go = self.size - floor - (to.size - to.serving)
        if may_go > 0:
            gone = off.take(min(may_go, off.size - off.serving))
            gone += off.take(max(0, min(off.size, self.serving - floor)))
            self.draining += gone

    def act(self) -> None:
        """Let the operator and the controller do all that they would do by themselves."""
        for _ in range(MANY):
            before = self.told()
            self.roll(*self.bounds())
            self.fewest, self.most_draining = min(self.fewest, self.serving), max(self.most_draining, self.draining)
            if self.told() == before:
                return

    def step(self) -> None:
        self.act()
        self.draining = 0
        self.act()  # the scheduler has not seen yet that they have gone
        free = self.gpus - self.old.placed - self.new.placed - self.draining
        for one in (self.old, self.new):
            placed = min(free, one.waiting)
            one.waiting, one.loading, free = one.waiting - placed, one.loading + placed, free - placed
        self.act()
        for one in (self.old, self.new):
            if not one.crash:
                one.loading, one.serving = 0, one.placed

    def told(self) -> tuple[Pods, Pods, int, Marks]:
        return copy.copy(self.old), copy.copy(self.new), self.draining, self.marks

    def settle(self) -> None:
        for _ in range(MANY):
            before = self.told()
            self.step()
            if self.told() == before:
                return


@pytest.mark.parametrize(("wanted", "gpus"), [(1, 1), (2, 1), (2, 2), (4, 2), (4, 3), (4, 4), (5, 3), (8, 5), (3, 4)])
class TestScarce:
    def test_every_place_gets_a_new_pod_and_one_that_serves_goes_at_a_time(self, wanted: int, gpus: int) -> None:
        world = World(wanted, gpus)
        world.settle()
        places = min(wanted, gpus)
        assert (world.old.size, world.new.serving) == (0, places)
        assert world.most_draining == 1
        assert world.fewest >= places - 1

    def test_nor_do_more_go_where_a_gpu_comes_free_meanwhile(self, wanted: int, gpus: int) -> None:
        world = World(wanted, gpus)
        world.step()
        world.gpus += 1
        world.settle()
        assert (world.old.size, world.new.serving) == (0, min(wanted, gpus + 1))
        assert world.most_draining == 1
        assert world.fewest >= min(wanted, gpus) - 1

    def test_a_revision_that_fails_gives_every_place_back(self, wanted: int, gpus: int) -> None:
        world = World(wanted, gpus, Pods(NEW, crash=True))
        world.settle()
        places = min(wanted, gpus)
        assert (world.new.size, world.old.serving) == (0, places)
        assert world.fewest >= places - 1

    def test_so_does_one_that_fails_where_a_node_is_lost_meanwhile(self, wanted: int, gpus: int) -> None:
        world = World(wanted, gpus, Pods(NEW, crash=True))
        world.act()
        world.gpus = max(1, gpus - 2)
        world.settle()
        world.late = HOPELESS
        world.settle()
        assert (world.new.size, world.old.serving) == (0, min(wanted, world.gpus))
