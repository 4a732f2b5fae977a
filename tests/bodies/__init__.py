"""What tests run in ranks: functions that are called by name, `"bodies.pool:echo"`, in processes of their own."""
