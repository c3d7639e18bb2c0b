-- Says of interrupted scans what removes them.

comment on table intake_ops.scans is 'Scans of lists that have not ended, or ended early. A row is removed when the checkpoint of its stream moves, a day after it was last written, when a patient of the team is erased, and with the rows of its team.';
