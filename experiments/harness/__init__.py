"""What all experiments are declared with: options, progress, JSON, tables and pictures, times, peers in processes."""

from experiments.harness.experiment import Experiment, Run
from experiments.harness.options import Option, count, either, option, positive, quick, seed
from experiments.harness.processes import PeerLost, PeerProcess
from experiments.harness.tables import NONE, cell, records, table
from experiments.harness.timing import in_turns, least_and_median, medians, threads
