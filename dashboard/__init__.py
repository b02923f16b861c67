"""The pages: charts, views and forms. No other app imports this one."""
