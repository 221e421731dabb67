"""Print each milestone of the flights job once it is complete. End after five seconds without a new one.

usage: python watch.py BROKERS
"""

import sys

from cutwater.client import Cluster, committed

for milestone in committed("deploy/jobs/flights.yaml", Cluster(sys.argv[1]), idle_s=5):
    print(milestone.token)
    for change in milestone.changes:
        print(" ", change.key, change.values["movements"], "movements, worst delay", change.values["worst_delay"])
